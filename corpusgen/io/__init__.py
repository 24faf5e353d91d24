"""Files on disks and in buckets, locks, the cache of a node, and terminal output."""
