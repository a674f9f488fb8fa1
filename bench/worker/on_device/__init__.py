"""Training as on a device: `prepare` makes graphs with torch, `training` steps them where torch is not."""
