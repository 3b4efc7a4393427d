"""The service: its queue, its limits, its project and its page."""
