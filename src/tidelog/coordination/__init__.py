"""Hosts decide/replay cores on partitions of internal topics: append, commit, replay, release replies."""
