"""Feed-forward classifiers rewritten to be cheap to attack.

An attack calls the same frozen classifier hundreds of times. Most are a plain chain of convolutions, batch
normalisations, ReLUs, poolings and linear layers. Such a chain is read off the module once (`trace`), and before every
attack its weights are put where the passes are cheapest (`layers`): BatchNorm folded into the convolution before it,
ReLU in place, channels last, in bfloat16 on request. The logits are the module's but for rounding.
"""

from bilaw.chain.layers import Chain
from bilaw.chain.trace import Traced, hooked, trace

__all__ = ["Chain", "Traced", "hooked", "trace"]
