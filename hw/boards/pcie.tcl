# The integrated block for PCI Express, as amoeba_hw.pcie.ultrascale expects it. Identities as amoeba_model.pci has them.
proc configure_pcie {name} {
    set_property -dict [list \
        CONFIG.PL_LINK_CAP_MAX_LINK_SPEED {8.0_GT/s} \
        CONFIG.PL_LINK_CAP_MAX_LINK_WIDTH {X16} \
        CONFIG.axisten_if_width {512_bit} \
        CONFIG.axisten_freq {250} \
        CONFIG.axisten_if_enable_client_tag {true} \
        CONFIG.AXISTEN_IF_EXT_512_CQ_STRADDLE {false} \
        CONFIG.AXISTEN_IF_EXT_512_CC_STRADDLE {false} \
        CONFIG.AXISTEN_IF_EXT_512_RQ_STRADDLE {false} \
        CONFIG.AXISTEN_IF_EXT_512_RC_STRADDLE {false} \
        CONFIG.extended_tag_field {false} \
        CONFIG.pf0_dev_cap_max_payload {512_bytes} \
        CONFIG.pf0_dev_cap_function_level_reset_capable {true} \
        CONFIG.vendor_id {1234} \
        CONFIG.PF0_DEVICE_ID {A0EB} \
        CONFIG.PF0_REVISION_ID {10} \
        CONFIG.PF0_CLASS_CODE {020000} \
        CONFIG.PF0_SUBSYSTEM_VENDOR_ID {1234} \
        CONFIG.PF0_SUBSYSTEM_ID {A0EB} \
        CONFIG.pf0_bar0_64bit {true} \
        CONFIG.pf0_bar0_prefetchable {false} \
        CONFIG.pf0_bar0_scale {Kilobytes} \
        CONFIG.pf0_bar0_size {256} \
        CONFIG.pf0_bar2_enabled {true} \
        CONFIG.pf0_bar2_64bit {true} \
        CONFIG.pf0_bar2_prefetchable {false} \
        CONFIG.pf0_bar2_scale {Kilobytes} \
        CONFIG.pf0_bar2_size {4} \
        CONFIG.pf0_msi_enabled {false} \
        CONFIG.pf0_msix_enabled {true} \
        CONFIG.MSI_X_OPTIONS {MSI-X_External} \
        CONFIG.PF0_MSIX_CAP_TABLE_SIZE {007} \
        CONFIG.PF0_MSIX_CAP_TABLE_BIR {BAR_3:2} \
        CONFIG.PF0_MSIX_CAP_TABLE_OFFSET {00000000} \
        CONFIG.PF0_MSIX_CAP_PBA_BIR {BAR_3:2} \
        CONFIG.PF0_MSIX_CAP_PBA_OFFSET {00000800} \
    ] [get_ips $name]
}
