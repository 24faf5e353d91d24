"""From raw text to filtered sentences with exact character offsets."""
