# The NIC's own clock, if it has one (--nic-mhz). It and user_clk meet in asynchronous queues and synchronizers: what
# passes between them arrives within the shorter period, so that the bits of a queue's pointer stay together.
set nic_clock [get_clocks -quiet -of_objects [get_pins -quiet nic_clock/mmcm/CLKOUT0]]
if {[llength $nic_clock]} {
    set user_clock [get_clocks -of_objects [get_pins pcie/block/user_clk]]
    set nic_period [get_property PERIOD $nic_clock]
    set user_period [get_property PERIOD $user_clock]
    set shorter [expr {$nic_period < $user_period ? $nic_period : $user_period}]
    set_max_delay -datapath_only -from $user_clock -to $nic_clock $shorter
    set_max_delay -datapath_only -from $nic_clock -to $user_clock $shorter
}
