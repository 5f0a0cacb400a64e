"""The loop above Algorithm 1: settings in, a trained classifier out."""
