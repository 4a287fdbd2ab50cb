module throughput

go 1.19

require duly v0.0.0

replace duly => ../../go
