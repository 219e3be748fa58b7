-- Indexes for the questions that are asked: what is known of a task, in order of insertion, and the finals of a trace.
-- An index over every trace's hash answered neither, and each insert changed another page of it.

DROP INDEX record_known;
CREATE INDEX record_task ON record (task_key, target);
CREATE INDEX record_final ON record (task_key, target, codegen_version, trace_hash) WHERE final = 1;
