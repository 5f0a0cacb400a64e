"""Write src/bilaw/datasets/digits.npz from scikit-learn's copy of the UCI digits (CC BY 4.0).

Run once, by hand, with the `dev` extra installed: `python scripts/make_digits.py`.
Pixels 0..16 become round(v * 255 / 16) in uint8; order and labels stay as scikit-learn has them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

TARGET = Path(__file__).parents[1] / "src" / "bilaw" / "datasets" / "digits.npz"


def main() -> None:
    """Write the file."""
    digits = load_digits()
    x = np.round(digits.images * 255 / 16).astype(np.uint8)
    np.savez_compressed(TARGET, x=x, y=digits.target.astype(np.uint8))
    print(f"{TARGET.name}: {len(x)} images, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
