"""Kafka: Debezium's events, the types of Kafka Connect in them, and the topics that hold them."""

from __future__ import annotations
