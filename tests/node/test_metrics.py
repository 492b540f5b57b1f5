"""What a scrape shows of a node at work: groups with their lag, transactional ids, partitions."""

import urllib.request
from contextlib import suppress

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.servers.broker_process import free_port
from tests.waiting import wait_until

import tidelog


def scrape(broker: tidelog.Broker) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{broker.node.config.admin_listen}/metrics", timeout=10) as response:
        lines = response.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_groups_lag_transactions_and_partitions_are_shown() -> None:
    expected = {
        'tidelog_group_committed_offset{group="billing",partition="0",topic="orders"}': 4,
        # Ten records and the marker of their transaction.
        'tidelog_group_lag{group="billing",partition="0",topic="orders"}': 7,
        'tidelog_group_rebalances_total{group="billing"}': 0,
        'tidelog_group_rebalances_total{group="classic"}': 1,
        # Of the consumer protocol to leave is one as well.
        'tidelog_group_rebalances_total{group="consumer"}': 2,
        'tidelog_high_watermark{partition="0",topic="orders"}': 11,
    }
    with tidelog.Broker(config={"admin.listen": f"127.0.0.1:{free_port()}"}) as broker:
        broker.create_topic("orders")
        clients = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        producer = Producer({**clients, "transactional.id": "payments"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(10):
            producer.produce("orders", b"%d" % number)
        assert producer.flush(30) == 0
        open_transaction = scrape(broker)
        producer.commit_transaction(30)
        consumer = Consumer({**clients, "group.id": "billing", "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
        consumer.close()
        for protocol in ("classic", "consumer"):
            reader = Consumer({**clients, "group.id": protocol, "group.protocol": protocol})
            reader.subscribe(["orders"])

            def is_assigned(reader: Consumer = reader) -> bool:
                reader.poll(0.1)
                return bool(reader.assignment())

            wait_until(is_assigned, f"an assignment in a {protocol} group")
            reader.close()
        # The marker of the transaction and the requests of a client that closes come later.
        with suppress(TimeoutError):
            wait_until(lambda: expected.items() <= scrape(broker).items(), "the expected metrics", 30)
        shown = scrape(broker)
    assert open_transaction['tidelog_transactional_ids{state="Ongoing"}'] == 1
    assert 0 < open_transaction["tidelog_transaction_oldest_seconds"] < 60
    assert 'tidelog_transactional_ids{state="Ongoing"}' not in shown
    assert shown["tidelog_transaction_oldest_seconds"] == 0
    assert shown["tidelog_controller_active"] == shown["tidelog_controller_known"] == 1
    assert 0 < shown["tidelog_disk_free_bytes"] < shown["tidelog_disk_size_bytes"]
    assert {name: shown.get(name) for name in expected} == expected
