"""Campaigns: many damaged inputs, killed processes and full disks, to test what docs/failures.md promises."""
