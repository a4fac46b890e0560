"""The golden arithmetic of the whole atomic matrix: what every (operation, datatype) does to memory bytes."""
