# The IPs of the Alveo U200 (and XCU1525: the same transceivers). 512 bits at 250 MHz, Gen3 x16; 100GBASE-R4 with RS-FEC.
create_ip -vendor xilinx.com -library ip -name pcie4_uscale_plus -module_name pcie4_uscale_plus_0
source [file join [file dirname [info script]] .. pcie.tcl]
configure_pcie pcie4_uscale_plus_0

create_ip -vendor xilinx.com -library ip -name cmac_usplus -module_name cmac_usplus_0
source [file join [file dirname [info script]] .. cmac.tcl]
configure_cmac cmac_usplus_0 CMACE4_X0Y8 X1Y48 X1Y49 X1Y50 X1Y51
