"""Word models: the frozen encoder's layer states, the distillers over them, their losses, the saved model."""
