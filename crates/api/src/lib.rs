//! CRD types, annotations, conditions and intent
