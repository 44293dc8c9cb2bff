"""What a person wrote (a job) and what runs (a plan): the model, its resolution, its warnings, its explanation."""
