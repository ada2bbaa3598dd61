// Decodes all rows of binary logs with go-mysql, and prints the number of changes of each kind for each table. It is
// measured beside `bintide stats`.
package main

import (
	"fmt"
	"os"
	"sort"

	"github.com/go-mysql-org/go-mysql/replication"
)

func main() {
	counts := map[string]int{}
	for _, file := range os.Args[1:] {
		parser := replication.NewBinlogParser()
		parser.SetVerifyChecksum(false)
		if err := parser.ParseFile(file, 0, func(event *replication.BinlogEvent) error {
			count(event, counts)
			return nil
		}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	sort.Slice(names, func(a, b int) bool { return counts[names[a]] > counts[names[b]] })
	for _, name := range names {
		fmt.Println(counts[name], name)
	}
}

func count(event *replication.BinlogEvent, counts map[string]int) {
	switch body := event.Event.(type) {
	case *replication.TransactionPayloadEvent:
		for _, inner := range body.Events {
			count(inner, counts)
		}
	case *replication.RowsEvent:
		rows := len(body.Rows)
		kind := "INSERT INTO"
		switch event.Header.EventType {
		case replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2, replication.PARTIAL_UPDATE_ROWS_EVENT:
			kind, rows = "UPDATE", rows/2
		case replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2:
			kind = "DELETE FROM"
		}
		counts[fmt.Sprintf("%s %s.%s", kind, body.Table.Schema, body.Table.Table)] += rows
	}
}
