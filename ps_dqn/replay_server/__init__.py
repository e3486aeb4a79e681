"""Tasks that keep the experience that actors and learners share: Ape-X's replay."""
