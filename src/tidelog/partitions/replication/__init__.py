"""The shell of replication: fetches of followers, proposals of leaders, and the clock that watches both."""
