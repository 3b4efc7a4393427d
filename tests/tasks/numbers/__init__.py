"""A kind of task that the package does not have: does the question ask for a number?"""
