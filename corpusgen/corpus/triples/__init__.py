"""Turn targets into triples: align words, propose candidates, choose among them."""
