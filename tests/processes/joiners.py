"""Processes that read while others write."""
