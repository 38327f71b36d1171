// Command headroom shows how much faster a Linux and PostgreSQL server could
// be, proves each fix on that machine, applies it so that it can be undone.
package main

import (
	"os"

	"headroom/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
