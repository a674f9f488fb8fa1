"""Looks at a step: its FLOPs, products, collectives, parts and profile."""
