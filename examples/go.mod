module github.com/redsem/redsem/examples

go 1.25.0

require github.com/redsem/redsem v0.0.0

replace github.com/redsem/redsem => ../
