"""`mq.MessageQueue`: records one by one, topics, and groups that clients drive themselves."""
