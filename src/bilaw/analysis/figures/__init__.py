"""Every figure: `NAME_data` gives its arrays, `NAME` draws them with matplotlib."""
