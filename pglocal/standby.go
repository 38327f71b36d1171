package pglocal

// leavePrimary is for standbys.
func (s *Server) leavePrimary() {}
