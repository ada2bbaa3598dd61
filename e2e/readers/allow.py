"""Allows an account of a Kafka broker only these operations on a topic: allow.py BROKERS TOPIC USER OPERATION…"""

import sys

from confluent_kafka.admin import AclBinding, AclBindingFilter, AclOperation, AclPermissionType, AdminClient
from confluent_kafka.admin import ResourcePatternType, ResourceType

brokers, topic, user, *operations = sys.argv[1:]
admin = AdminClient({"bootstrap.servers": brokers})
place = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
earlier = AclBindingFilter(*place, None, None, AclOperation.ANY, AclPermissionType.ANY)
for deleted in admin.delete_acls([earlier]).values():
    deleted.result()
allowed = [
    AclBinding(*place, f"User:{user}", "*", AclOperation[operation], AclPermissionType.ALLOW) for operation in operations
]
for created in admin.create_acls(allowed).values():
    created.result()
