"""Where the messages of this door are registered: not in the pool of the process, which a program that embeds a node
shares with stubs of its own."""

from google.protobuf.descriptor_pool import DescriptorPool

POOL = DescriptorPool()
