"""Show studies: the paper's tables with our numbers beside them, tests of every difference, and pictures."""
