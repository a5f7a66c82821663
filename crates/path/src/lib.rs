//! What the network does to a packet: links, queues, impairments, capacity traces.
