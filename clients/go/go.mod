module duly

go 1.19
