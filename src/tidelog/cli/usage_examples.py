"""Examples at the end of `--help`, by command: what people type first, then what they look for later.

A test holds them against the parser: every command has some, and each of them is taken by it.
"""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "serve": (
        "tidelog serve --data ./data",
        "tidelog serve --listen 0.0.0.0:9092 --advertise kafka.example.org:9092 --admin 127.0.0.1:9644",
        "tidelog serve --config tidelog.yaml -o log.retention.ms=86400000",
    ),
    "cluster start": (
        "tidelog cluster start",
        "tidelog cluster start --nodes 5 --data ./cluster",
    ),
    "cluster status": ("tidelog cluster status", "tidelog cluster status --json -b 127.0.0.1:9093"),
    "cluster drain": ("tidelog cluster drain 3 --dry-run", "tidelog cluster drain 3"),
    "cluster undrain": ("tidelog cluster undrain 3",),
    "cluster remove": ("tidelog cluster remove 3", "tidelog cluster remove 3 --force --yes"),
    "cluster upgrade": ("tidelog cluster upgrade --dry-run", "tidelog cluster upgrade"),
    "cluster rebalance": ("tidelog cluster rebalance --dry-run", "tidelog cluster rebalance"),
    "topics create": (
        "tidelog topics create orders --partitions 6",
        "tidelog topics create customers -p 3 -r 3 -c cleanup.policy=compact",
    ),
    "topics list": ("tidelog topics list", "tidelog topics list --internal --json"),
    "topics describe": ("tidelog topics describe orders",),
    "topics alter": (
        "tidelog topics alter orders --partitions 12",
        "tidelog topics alter orders -c retention.ms=86400000 --delete-config segment.bytes",
        "tidelog topics alter orders --replication-factor 3",
    ),
    "topics reassign": ("tidelog topics reassign", "tidelog topics reassign orders --partition 0 --replicas 2,3,1"),
    "topics delete": ("tidelog topics delete orders", "tidelog topics delete orders customers --if-exists --yes"),
    "produce": (
        "tidelog produce orders --key c1 --value '{\"id\": 1}'",
        "tidelog produce orders --file orders.jsonl --compression zstd",
        "tidelog produce orders --file pairs.txt --key-separator '\\t' -H source=shop",
    ),
    "consume": (
        "tidelog consume orders",
        "tidelog consume orders --follow --from-time 10m --json",
        "tidelog consume orders --group billing --max 100",
    ),
    "groups list": ("tidelog groups list", "tidelog groups list --state empty"),
    "groups describe": ("tidelog groups describe billing", "tidelog groups describe --all --json"),
    "groups members": ("tidelog groups members billing",),
    "groups reset-offsets": (
        "tidelog groups reset-offsets billing --all-topics --to-earliest",
        "tidelog groups reset-offsets billing --topic orders:0,1 --to-time 2h --execute --yes",
    ),
    "groups delete": ("tidelog groups delete billing", "tidelog groups delete billing reports --yes"),
    "transactions list": ("tidelog transactions list", "tidelog transactions list --state Ongoing --longer-than 5m"),
    "transactions describe": ("tidelog transactions describe payments-1",),
    "transactions abort": (
        "tidelog transactions abort payments-1",
        "tidelog transactions abort --topic orders --partition 0 --start-offset 120 --yes",
    ),
    "config explain": (
        "tidelog config explain log.retention.ms",
        "tidelog config explain 'log.*.ms' --file tidelog.yaml",
    ),
    "config list": ("tidelog config list", "tidelog config list topic"),
    "config describe": (
        "tidelog config describe topic orders",
        "tidelog config describe broker 1 '*retention*' --changed",
    ),
    "config set": (
        "tidelog config set topic orders retention.ms=86400000",
        "tidelog config set broker default log.segment.delete.delay.ms=30000",
    ),
    "config unset": ("tidelog config unset topic orders retention.ms",),
    "log dump": ("tidelog log dump ./tidelog-data/orders-0", "tidelog log dump ./tidelog-data/orders-0 --json"),
    "log verify": ("tidelog log verify ./tidelog-data --records",),
    "bench": ("tidelog bench", "tidelog bench --records 2000000 --size 1000 --acks all --case produce"),
    "pipeline init": (
        "tidelog pipeline init orders",
        "tidelog pipeline init orders --to shop/orders.yaml --sink topic",
    ),
    "pipeline validate": ("tidelog pipeline validate shop.yaml",),
    "pipeline plan": ("tidelog pipeline plan shop.yaml",),
    "pipeline run": ("tidelog pipeline run shop.yaml", "tidelog pipeline run shop.yaml --master 'local[2]'"),
    "pipeline status": ("tidelog pipeline status shop.yaml",),
    "pipeline stop": ("tidelog pipeline stop shop.yaml --timeout 30",),
    "examples list": ("tidelog examples list",),
    "examples load": ("tidelog examples load windows --to ./windows",),
    "archive": (
        "tidelog archive orders --to ./lake/orders",
        "tidelog archive orders --to ./lake/orders --format delta --follow 1m",
    ),
    "replay": ("tidelog replay ./lake/orders --to orders-again", "tidelog replay ./lake/orders --to t --from-time 2h"),
    "audit": ("tidelog audit orders ./lake/orders",),
    "compact": ("tidelog compact ./lake/orders --target-mb 256",),
    "profile add": (
        "tidelog profile add test --bootstrap 127.0.0.1:9092 --use",
        "tidelog profile add prod --bootstrap kafka-1.example.org:9092,kafka-2.example.org:9092",
        "tidelog profile add prod -b kafka.example.org:9094 -X security.protocol=SSL --replace",
    ),
    "profile list": ("tidelog profile list", "tidelog profile list --json"),
    "profile show": ("tidelog profile show prod",),
    "profile use": ("tidelog profile use prod", "tidelog profile use --none"),
    "profile remove": ("tidelog profile remove prod", "tidelog profile remove prod --yes"),
    "completion": ("tidelog completion bash", "tidelog completion zsh", "tidelog completion fish"),
    "demo": ("tidelog demo", "tidelog demo --broker-only --records 10000"),
}
