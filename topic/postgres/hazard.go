package postgres

import (
	"fmt"

	"headroom/change"
	"headroom/fact"
	"headroom/probe/block"
	"headroom/probe/pg"
	"headroom/probe/place"
	"headroom/unit"
)

// hazard is what changing a setting can break.
type hazard struct {
	risk change.Risk
	why  string
}

// hazards are the settings that can hurt, with what they can do.
var hazards = map[string]hazard{
	"fsync":                               {change.RiskHigh, "with off, a power loss may destroy the whole data folder"},
	"full_page_writes":                    {change.RiskHigh, "with off, a power loss may leave damaged pages that nothing reports"},
	"zero_damaged_pages":                  {change.RiskHigh, "with on, damaged pages are replaced by empty ones: their rows are gone"},
	"data_sync_retry":                     {change.RiskHigh, "with on, data that a failed fsync lost is taken as written"},
	"ignore_system_indexes":               {change.RiskHigh, "reading the catalogs without their indexes makes everything slow"},
	"wal_level":                           {change.RiskHigh, "minimal ends replication and point-in-time recovery"},
	"archive_mode":                        {change.RiskHigh, "off ends point-in-time recovery"},
	"archive_command":                     {change.RiskHigh, "a command that fails makes the log pile up; one that lies loses the backup"},
	"archive_library":                     {change.RiskHigh, "a library that fails makes the log pile up; one that lies loses the backup"},
	"listen_addresses":                    {change.RiskHigh, "who can connect changes; a wrong value locks clients out, or lets everybody in"},
	"ssl":                                 {change.RiskHigh, "with on, and without a certificate and key that fit, encryption stays off and the next start of the server fails"},
	"ssl_cert_file":                       {change.RiskHigh, "with a file that does not fit, encryption stays as it was and the next start of the server fails"},
	"ssl_key_file":                        {change.RiskHigh, "with a file that does not fit, encryption stays as it was and the next start of the server fails"},
	"ssl_ca_file":                         {change.RiskHigh, "with a file that does not fit, encryption stays as it was and the next start of the server fails"},
	"port":                                {change.RiskHigh, "clients look for the server at the former port"},
	"unix_socket_directories":             {change.RiskHigh, "local clients look for the socket in the former folder"},
	"hba_file":                            {change.RiskHigh, "who may connect changes"},
	"data_directory":                      {change.RiskHigh, "the server starts on other data, or not at all"},
	"password_encryption":                 {change.RiskMedium, "passwords set from now on may not suit older clients"},
	"synchronous_commit":                  {change.RiskMedium, "with off, a crash loses the last moments of confirmed transactions"},
	"autovacuum":                          {change.RiskHigh, "with off, dead rows pile up and transaction numbers run out in the end"},
	"track_counts":                        {change.RiskHigh, "with off, autovacuum does nothing"},
	"shared_buffers":                      {change.RiskMedium, "the server does not start if the memory is not there"},
	"huge_pages":                          {change.RiskMedium, "with on, the server does not start unless the kernel has enough huge pages"},
	"max_connections":                     {change.RiskMedium, "clients beyond it are refused; more of them take more memory"},
	"work_mem":                            {change.RiskMedium, "each sort and hash of each session may take it: the sum must fit the memory"},
	"hash_mem_multiplier":                 {change.RiskMedium, "each hash of each session may take that many times work_mem"},
	"maintenance_work_mem":                {change.RiskMedium, "each autovacuum worker and index build may take it"},
	"autovacuum_work_mem":                 {change.RiskMedium, "each autovacuum worker may take it"},
	"temp_buffers":                        {change.RiskMedium, "each session may take it"},
	"max_wal_size":                        {change.RiskMedium, "the write-ahead log takes that much disk, and recovery after a crash takes longer"},
	"min_wal_size":                        {change.RiskMedium, "that much disk stays taken by the write-ahead log"},
	"wal_keep_size":                       {change.RiskMedium, "that much more disk is taken by the write-ahead log"},
	"max_slot_wal_keep_size":              {change.RiskMedium, "a slot that falls further behind is lost, and its reader must start afresh"},
	"checkpoint_timeout":                  {change.RiskMedium, "recovery after a crash takes longer"},
	"random_page_cost":                    {change.RiskMedium, "plans change: look at your slowest queries afterwards"},
	"seq_page_cost":                       {change.RiskMedium, "plans change: look at your slowest queries afterwards"},
	"effective_cache_size":                {change.RiskMedium, "plans change: look at your slowest queries afterwards"},
	"jit":                                 {change.RiskMedium, "long queries may get slower or faster"},
	"statement_timeout":                   {change.RiskMedium, "statements that take longer are cancelled, dumps and index builds among them"},
	"idle_in_transaction_session_timeout": {change.RiskMedium, "applications that idle inside a transaction lose their connection"},
	"idle_session_timeout":                {change.RiskMedium, "pools that keep idle connections lose them"},
	"lock_timeout":                        {change.RiskMedium, "statements that wait longer for a lock fail"},
	"log_statement":                       {change.RiskMedium, "the log grows fast and holds the values of statements"},
	"log_min_duration_statement":          {change.RiskLow, "the log holds the values of slow statements, and grows"},
	"shared_preload_libraries":            {change.RiskHigh, "the server does not start if a library is missing"},
}

// hazardOf is what setting name to value can break here.
func hazardOf(s *fact.Set, name, value string) hazard {
	h, ok := hazards[name]
	if !ok {
		h = hazard{change.RiskLow, "takes effect at once and is undone at once"}
	}
	v, u, err := unit.Parse(value)
	c := fact.Get(s, pg.Settings)
	switch {
	case (name == "fsync" || name == "full_page_writes" || name == "autovacuum" || name == "track_counts" || name == "synchronous_commit") && truth(value):
		h = hazard{change.RiskLow, "it is the safe value; writes may take longer"}
	case name == "max_wal_size" && err == nil && u == unit.Byte:
		room, known := walRoom(fact.Get(s, place.Layouts), fact.Get(s, block.Mounts))
		now, _ := c.Number(name)
		switch {
		case known && v-now > room*0.8:
			h = hazard{change.RiskHigh, fmt.Sprintf("only %s are free where the write-ahead log lies: when that is full the server stops", unit.Format(room, unit.Byte))}
		case known:
			h.why += fmt.Sprintf(" (%s are free there)", unit.Format(room, unit.Byte))
		default:
			h.why += " (how much is free there is not known)"
		}
	case name == "work_mem" && err == nil && u == unit.Byte:
		if n, ok := c.Number("max_connections"); ok {
			h.why += fmt.Sprintf(" (%s connections × %s = %s)", unit.Format(n, unit.Count), unit.Format(v, unit.Byte), unit.Format(n*v, unit.Byte))
		}
	}
	return h
}

// truth reads a boolean as the server does, for its common spellings.
func truth(value string) bool {
	switch value {
	case "on", "true", "yes", "1", "t", "y", "ON", "TRUE", "YES":
		return true
	}
	return false
}

var riskOrder = map[change.Risk]int{change.RiskLow: 0, change.RiskMedium: 1, change.RiskHigh: 2}

func worse(a, b change.Risk) bool { return riskOrder[a] > riskOrder[b] }
