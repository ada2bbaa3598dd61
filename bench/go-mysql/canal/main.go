// Follows a server with go-mysql's canal, and prints the kind and the first column of each changed row of a database,
// up to a row whose first column has the last value.
// Usage: canal HOST:PORT USER PASSWORD DATABASE LAST
package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/go-mysql-org/go-mysql/canal"
	"github.com/go-mysql-org/go-mysql/mysql"
)

type rowPrinter struct {
	*canal.DummyEventHandler
	last string
}

func (printer rowPrinter) OnRow(event *canal.RowsEvent) error {
	for number, row := range event.Rows {
		// An update has each row before and after the change.
		if event.Action == canal.UpdateAction && number%2 == 0 {
			continue
		}
		key := fmt.Sprint(row[0])
		fmt.Println(event.Action, key)
		if key == printer.last {
			os.Exit(0)
		}
	}
	return nil
}

func main() {
	config := canal.NewDefaultConfig()
	config.Addr, config.User, config.Password = os.Args[1], os.Args[2], os.Args[3]
	config.Dump.ExecutionPath = ""
	config.IncludeTableRegex = []string{strings.ReplaceAll("^DATABASE\\.", "DATABASE", os.Args[4])}
	config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	follower, err := canal.NewCanal(config)
	if err == nil {
		follower.SetEventHandler(rowPrinter{last: os.Args[5]})
		var executed mysql.GTIDSet
		if executed, err = mysql.ParseGTIDSet(mysql.MySQLFlavor, ""); err == nil {
			err = follower.StartFromGTID(executed)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
