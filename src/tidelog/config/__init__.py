"""Settings of brokers, topics, groups and listeners: names, types, ranges and defaults, checked and joined.

Pure: text in, frozen values out; files and command lines are read elsewhere. May use `model`.
"""
