"""What tests of several devices and layers share."""
