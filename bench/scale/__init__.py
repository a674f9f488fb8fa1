"""`make scale`: a step on 1 to 1,024 GPUs, predicted from counted bytes and published figures of links."""
