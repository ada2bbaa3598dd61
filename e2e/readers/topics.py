"""Prints the committed records of topics whose keys and values have a schema in a registry: one JSON object per line.

topics.py BROKERS REGISTRY PREFIX

Avro is decoded by fastavro. Bytes become base64, as in JSON records."""

import base64
import json
import struct
import sys
import urllib.request
from io import BytesIO

import fastavro
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

BROKERS, REGISTRY, PREFIX = sys.argv[1:]
SCHEMAS = {}


def schema(number):
    """Returns the type and the schema of a number in the registry."""
    if number not in SCHEMAS:
        with urllib.request.urlopen(f"{REGISTRY}/schemas/ids/{number}") as answer:
            told = json.load(answer)
        text = json.loads(told["schema"])
        kind = told.get("schemaType", "AVRO")
        SCHEMAS[number] = (kind, fastavro.parse_schema(plain_schema(text)) if kind == "AVRO" else text)
    return SCHEMAS[number]


def plain_schema(part):
    """Removes logical types: numbers and bytes are compared as they are encoded."""
    if isinstance(part, dict):
        return {name: plain_schema(value) for name, value in part.items() if name != "logicalType"}
    return [plain_schema(value) for value in part] if isinstance(part, list) else part


def short_float(number):
    """Returns a single-precision number with the fewest digits that identify it."""
    single = struct.pack("<f", number)
    return next(short for digits in range(1, 18) if struct.pack("<f", short := float(f"{number:.{digits}g}")) == single)


def records(part):
    """Returns all records of a schema by their names."""
    found = {}
    if isinstance(part, dict):
        if part.get("type") == "record":
            found[part["name"]] = part
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            found |= records(inner)
    return found


def plain(value, part, named):
    """Returns a decoded value as JSON has it."""
    if isinstance(part, str):
        part = named.get(part, {"type": part})
    if isinstance(part, list):
        return None if value is None else plain(value, next(branch for branch in part if branch != "null"), named)
    match part["type"]:
        case "record":
            return {field["name"]: plain(value[field["name"]], field["type"], named) for field in part["fields"]}
        case "array":
            return [plain(item, part["items"], named) for item in value]
        case "bytes":
            return base64.b64encode(value).decode()
        case "float":
            return short_float(value)
        case _:
            return value


def decoded(part):
    """Returns the text of a key or value, and its JSON Schema."""
    if part is None:
        return None, None
    if part[0] != 0:
        return part.decode(), None
    kind, found = schema(int.from_bytes(part[1:5], "big"))
    if kind == "JSON":
        return part[5:].decode(), found
    stream = BytesIO(part[5:])
    value = fastavro.schemaless_reader(stream, found)
    if stream.read():
        raise SystemExit("bytes after the end of a value")
    return json.dumps(plain(value, found, records(found)), ensure_ascii=False, separators=(",", ":")), None


consumer = Consumer(
    {
        "bootstrap.servers": BROKERS,
        "group.id": "topics",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
)
partitions = [
    TopicPartition(name, number, OFFSET_BEGINNING)
    for name, topic in consumer.list_topics(timeout=60).topics.items()
    if (name == PREFIX or name.startswith(PREFIX + ".")) and not name.endswith(".bintide-progress")
    for number in topic.partitions
]
consumer.assign(partitions)
left = len(partitions)
while left > 0:
    message = consumer.poll(60)
    if message is None:
        raise SystemExit(f"{left} partitions cannot be read to their end")
    if message.error():
        if message.error().code() != KafkaError._PARTITION_EOF:
            raise SystemExit(str(message.error()))
        left -= 1
        continue
    (key, key_schema), (value, value_schema) = decoded(message.key()), decoded(message.value())
    headers = [[name, text.decode()] for name, text in message.headers() or []]
    print(
        json.dumps(
            {
                "topic": message.topic(),
                "partition": message.partition(),
                "key": key,
                "value": value,
                "headers": headers,
                "key_schema": key_schema,
                "value_schema": value_schema,
            }
        )
    )
consumer.close()
