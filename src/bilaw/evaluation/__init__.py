"""What a classifier is worth: accuracies, and how sure one can be of them."""
