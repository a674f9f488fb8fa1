"""Training as on a device: ONNX Runtime steps graphs that were made beforehand, and torch is not there.

`prepare` makes them, with torch, in a process of its own; `training` steps them; `rank` answers the
coordinator as every rank does.
"""
