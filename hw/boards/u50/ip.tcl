# The IPs of the Alveo U50. 512 bits at 250 MHz, Gen3 x16; 100GBASE-R4 with RS-FEC.
create_ip -vendor xilinx.com -library ip -name pcie4c_uscale_plus -module_name pcie4c_uscale_plus_0
source [file join [file dirname [info script]] .. pcie.tcl]
configure_pcie pcie4c_uscale_plus_0

create_ip -vendor xilinx.com -library ip -name cmac_usplus -module_name cmac_usplus_0
source [file join [file dirname [info script]] .. cmac.tcl]
configure_cmac cmac_usplus_0 CMACE4_X0Y3 X0Y28 X0Y29 X0Y30 X0Y31
