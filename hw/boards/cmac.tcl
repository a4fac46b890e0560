# The integrated block for 100G Ethernet: 4 lanes, RS-FEC, no flow control, AXI4-Stream. init_clk is half of PCIe's clock.
proc configure_cmac {name core lane1 lane2 lane3 lane4} {
    set_property -dict [list \
        CONFIG.CMAC_CAUI4_MODE {1} \
        CONFIG.NUM_LANES {4x25} \
        CONFIG.GT_REF_CLK_FREQ {161.1328125} \
        CONFIG.USER_INTERFACE {AXIS} \
        CONFIG.GT_DRP_CLK {125} \
        CONFIG.INCLUDE_RS_FEC {1} \
        CONFIG.TX_FLOW_CONTROL {0} \
        CONFIG.RX_FLOW_CONTROL {0} \
        CONFIG.CMAC_CORE_SELECT $core \
        CONFIG.GT_GROUP_SELECT "$lane1~$lane4" \
        CONFIG.LANE1_GT_LOC $lane1 \
        CONFIG.LANE2_GT_LOC $lane2 \
        CONFIG.LANE3_GT_LOC $lane3 \
        CONFIG.LANE4_GT_LOC $lane4 \
    ] [get_ips $name]
}
