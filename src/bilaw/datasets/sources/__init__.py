"""Where the paper's data sets come from: several sources for each, and one test of what they give."""
