# vivado -mode batch -source hw/boards/build.tcl -tclargs FOLDER PART TOP VERILOG DIRECTORY
# FOLDER has ip.tcl and pins.xdc; VERILOG is what python -m amoeba_hw.boards.top has written; DIRECTORY gets the result.
lassign $argv folder part top verilog directory
create_project -force -part $part $top $directory
add_files $verilog
add_files -fileset constrs_1 [file join $folder pins.xdc]
add_files -fileset constrs_1 [file join [file dirname [info script]] nic_clock.tcl]
source [file join $folder ip.tcl]
generate_target all [get_ips]
set_property top $top [current_fileset]
launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_run impl_1
open_run impl_1
report_timing_summary -file [file join $directory timing.txt]
report_utilization -file [file join $directory utilization.txt]
