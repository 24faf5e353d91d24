"""Files on disks and in buckets, locks, a node's cache, the terminal."""
