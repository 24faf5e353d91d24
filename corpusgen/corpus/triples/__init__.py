"""Stages and rules that turn targets into triples: align words, propose candidates, choose among them."""
