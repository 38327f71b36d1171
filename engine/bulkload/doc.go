// Package bulkload loads files into PostgreSQL tables, fast and so that it can
// be gone on with or taken back.
//
// It looks at the table, weighs for each index, key and foreign key whether to
// keep it or to drop it and build it again, and sends the input as it is
// written over several connections, in chunks of whole records. Each chunk is
// one transaction that holds a note of itself: a load that is interrupted, on
// either side, goes on with exactly the chunks that are missing (Resume), or
// is taken back (Restore). Definitions of all that is dropped are stored in a
// file and in the table headroom.load before anything goes.
//
// Records that the server refuses are found, written down with line, column
// and reason, and the rest goes in. What cannot be kept as it was promised,
// such as a key over rows that occur twice, puts the table back as it was.
package bulkload
