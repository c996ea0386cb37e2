"""Attribution methods: (model, batch, readout, options) -> one Found for every target."""
